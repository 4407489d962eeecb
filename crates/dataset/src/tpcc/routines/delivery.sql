
declare
    v_order int;
    v_customer int;
    v_total numeric;
begin
    for v_district in 1 .. 10 loop
        -- the oldest that nobody else delivers by now
        delete from new_order
        where no_w_id = p_w_id and no_d_id = v_district and no_o_id = (
            select no_o_id from new_order
            where no_w_id = p_w_id and no_d_id = v_district
            order by no_o_id limit 1 for update)
        returning no_o_id into v_order;
        r_orders[v_district] := v_order;
        continue when v_order is null;

        update orders set o_carrier_id = p_carrier
        where o_w_id = p_w_id and o_d_id = v_district and o_id = v_order
        returning o_c_id into v_customer;

        with delivered as (
            update order_line set ol_delivery_d = now()
            where ol_w_id = p_w_id and ol_d_id = v_district and ol_o_id = v_order
            returning ol_amount)
        select sum(ol_amount) into v_total from delivered;

        update customer set c_balance = c_balance + v_total/* delivery count */
        where c_w_id = p_w_id and c_d_id = v_district and c_id = v_customer;
    end loop;
end
